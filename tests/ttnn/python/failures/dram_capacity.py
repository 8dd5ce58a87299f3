import ttnn

device = ttnn.open_device(device_id=0)


def tensor(rows):
    return ttnn.empty([1, 1, rows, 16384], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


weights = [tensor(rows=16384) for _layer in range(23)]
cache = tensor(rows=32768)
