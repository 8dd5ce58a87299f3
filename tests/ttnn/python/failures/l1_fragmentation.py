import ttnn

device = ttnn.open_device(device_id=0)


def activation(rows):
    shape = [1, 1, rows, 1024]
    return ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


kept, freed = [], []
for step in range(8):
    kept.append(activation(rows=64 if step == 3 else 2048))
    freed.append(activation(rows=2560))
for each in freed:
    ttnn.deallocate(each)
attention = activation(rows=14336)
