import ttnn

device = ttnn.open_device(device_id=0)
large = [1, 1, 8192, 5120]
resident = ttnn.empty(large, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
scores = ttnn.zeros([1, 1, 1024, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
attention = ttnn.softmax(scores, -1)
