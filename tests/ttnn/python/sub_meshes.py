"""Allocates on a mesh and on its sub-meshes, whose allocators share chips and not what they know.

They hand out the same addresses: a chip is charged for all of them, each of them for its own.
One sub-mesh has all chips of the mesh, so that two allocators are on the same set of chips.
Nothing is written and no operation runs: the command queue of a chip belongs to one mesh until
it rests, and letting it rest crashes ttnn 0.81.1 on boards that are not there.
"""

import ttnn
from tensors import block_sharded, empty, height_sharded
from ttmem_check import Arguments, Check, close_board, open_board

TALL, SQUARE = [1, 1, 512, 64], [1, 1, 256, 256]


def create(mesh):
    """Tensors of several kinds."""
    return [
        empty(mesh, [1, 1, 1024, 1024], ttnn.DRAM_MEMORY_CONFIG),
        empty(mesh, SQUARE, ttnn.L1_MEMORY_CONFIG),
        empty(mesh, TALL, height_sharded(TALL)),
        empty(mesh, SQUARE, block_sharded(SQUARE)),
    ]


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    # One row of a machine, one chip of a card.
    columns = arguments.columns if arguments.rows > 1 else 1
    parts = device.create_submeshes(ttnn.MeshShape(1, columns))
    parts.append(device.create_submesh(ttnn.MeshShape(arguments.rows, arguments.columns)))
    meshes = [device, *parts]
    check = Check()
    check.watch(*meshes)

    live = [check.step(f"create on mesh {mesh.id()}", lambda: create(mesh)) for mesh in meshes]
    for mesh, held in zip(meshes, live):
        check.step(f"free the first on mesh {mesh.id()}", lambda: ttnn.deallocate(held.pop(0)))
    for mesh, held in zip(meshes, live):
        check.step(f"create more on mesh {mesh.id()}", lambda: held.extend(create(mesh)))
    for mesh, held in zip(reversed(meshes), reversed(live)):
        check.step(f"free all on mesh {mesh.id()}", held.clear)

    for part in parts:
        ttnn.close_mesh_device(part)
    check.watch(device)
    held = check.step("create after the sub-meshes", lambda: create(device))
    check.step("free after the sub-meshes", held.clear)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
