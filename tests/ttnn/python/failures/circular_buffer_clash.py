import ttnn

device = ttnn.open_device(device_id=0)


def resident(rows, columns):
    shape = [1, 1, rows, columns]
    return ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


weights = resident(8192, 5120)
mask = resident(2432, 1024)
a = ttnn.zeros([1, 1, 1024, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
total = ttnn.add(a, a)
