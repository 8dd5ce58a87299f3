import ttnn

SIDE, CHANNELS = 16, 32
device = ttnn.open_device(device_id=0, l1_small_size=128)
image = ttnn.zeros([1, 1, SIDE * SIDE, CHANNELS], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
shape = [CHANNELS, CHANNELS, 3, 3]
weights = ttnn.Tensor([0.5] * CHANNELS * CHANNELS * 9, shape, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
for _block in range(2):
    image = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=weights,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        batch_size=1,
        input_height=SIDE,
        input_width=SIDE,
        kernel_size=(3, 3),
        padding=(1, 1),
        device=device,
    )
