import ttnn

device = ttnn.open_device(device_id=0)


def activation(rows):
    shape = [1, 1, rows, 4096]
    return ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


residual = activation(rows=8192)
hidden = activation(rows=4096)
