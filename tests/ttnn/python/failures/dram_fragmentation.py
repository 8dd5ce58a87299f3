import ttnn

device = ttnn.open_device(device_id=0)


def tensor(rows):
    return ttnn.empty([1, 1, rows, 16384], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


layers, scratch = [], []
for _layer in range(11):
    layers.append(tensor(rows=16384))
    scratch.append(tensor(rows=16384))
for each in scratch:
    ttnn.deallocate(each)
cache = tensor(rows=65536)
