use super::*;

const GRID_4X4: Grid = Grid::new(4, 4);

/// Size, page and pages of a shard.
fn figures(spec: &TensorSpec) -> (u64, u64, Option<u64>) {
    let buffer = spec.buffer().unwrap();
    let shard = buffer.shards.map(|shards| shards.pages_per_shard);
    (buffer.size, buffer.page, shard)
}

fn cores(spec: &TensorSpec) -> CoreSet {
    spec.buffer().unwrap().shards.unwrap().cores
}

fn bfloat16(shape: &[u64]) -> TensorSpec {
    TensorSpec::tiled(shape, DataType::Bfloat16, Class::L1)
}

#[test]
fn names_are_those_of_ttnn() {
    let names: Vec<_> = DataType::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(
        names.join(" "),
        "bfloat16 bfloat8_b bfloat4_b float32 uint32 int32 uint16 uint8"
    );
    for kind in DataType::ALL {
        assert_eq!(DataType::from_name(kind.name()), Some(*kind));
    }
    assert_eq!(
        TileLayout::from_name("row_major"),
        Some(TileLayout::RowMajor)
    );
    assert_eq!(Shard::from_name("block"), Some(Shard::Block));
    assert_eq!(DataType::from_name("bfloat8"), None);
}

#[test]
fn tiles_of_block_floats_carry_their_exponents() {
    let bytes: Vec<_> = DataType::ALL.iter().map(|kind| kind.tile_bytes()).collect();
    assert_eq!(bytes, [2048, 1088, 576, 4096, 4096, 4096, 2048, 1024]);
    for kind in DataType::ALL {
        if let Some(element) = kind.element_bytes() {
            assert_eq!(element * 1024, kind.tile_bytes(), "{kind:?}");
        }
    }
}

#[test]
fn a_page_is_a_tile() {
    assert_eq!(
        figures(&bfloat16(&[1, 1, 1024, 1024])),
        (2_097_152, 2048, None)
    );
    let block_float = TensorSpec::tiled(&[1, 32, 128, 128], DataType::Bfloat8B, Class::Dram);
    assert_eq!(figures(&block_float), (557_056, 1088, None));
}

#[test]
fn each_matrix_of_a_tensor_is_padded_to_tiles() {
    let spec = TensorSpec::tiled(&[3, 5, 33, 65], DataType::Float32, Class::Dram);
    assert_eq!(spec.padded_shape(), [3, 5, 64, 96]);
    assert_eq!(spec.tiles(), 3 * 5 * 2 * 3);
    assert_eq!(figures(&spec), (368_640, 4096, None));
}

#[test]
fn vectors_and_scalars_are_padded_to_tiles_too() {
    assert_eq!(bfloat16(&[100]).padded_shape(), [32, 128]);
    assert_eq!(figures(&bfloat16(&[100])), (4 * 2048, 2048, None));
    assert_eq!(figures(&bfloat16(&[])), (2048, 2048, None));
}

#[test]
fn a_page_is_a_row() {
    let spec = TensorSpec::row_major(&[1, 1, 64, 100], DataType::Bfloat16, Class::Dram);
    assert_eq!(spec.padded_shape(), [1, 1, 64, 100]);
    assert_eq!(figures(&spec), (12_800, 200, None));
    assert_eq!(spec.tiles(), 2 * 4);
    let vector = TensorSpec::row_major(&[7], DataType::Uint8, Class::Dram);
    assert_eq!(figures(&vector), (7, 7, None));
}

#[test]
fn shards_of_equal_size_on_every_core() {
    for (shape, shard, layout, expected) in [
        (
            [1024, 128],
            Shard::Height,
            Layout::HeightSharded,
            (262_144, 2048, Some(8)),
        ),
        (
            [128, 1024],
            Shard::Width,
            Layout::WidthSharded,
            (262_144, 2048, Some(8)),
        ),
        (
            [512, 512],
            Shard::Block,
            Layout::BlockSharded,
            (524_288, 2048, Some(16)),
        ),
    ] {
        let spec = bfloat16(&shape).sharded(shard, GRID_4X4);
        assert_eq!(figures(&spec), expected, "{shard:?}");
        assert_eq!(spec.buffer().unwrap().layout, layout);
        assert_eq!(cores(&spec), CoreSet::grid(4, 4), "{shard:?}");
    }
}

#[test]
fn a_shard_is_whole_tiles_and_the_last_cores_may_hold_none() {
    // 11 rows of tiles over 8 cores: two for each of 6 cores.
    let spec = bfloat16(&[350, 64]).sharded(Shard::Height, Grid::new(4, 2));
    assert_eq!(figures(&spec), (11 * 2 * 2048, 2048, Some(4)));
    let mut six = CoreSet::grid(4, 1);
    six.insert_all(&CoreSet::grid(2, 2));
    assert_eq!(cores(&spec), six);
    // The shards that exist count whole: one row of tiles is padding.
    assert_eq!(spec.buffer().unwrap().aligned_size(32), Some(6 * 4 * 2048));
}

#[test]
fn blocks_follow_the_rows_and_columns_of_the_grid() {
    let spec = bfloat16(&[64, 256]).sharded(Shard::Block, GRID_4X4);
    assert_eq!(figures(&spec), (16 * 2048, 2048, Some(2)));
    assert_eq!(cores(&spec), CoreSet::grid(4, 2));
}

#[test]
fn rows_are_cut_at_the_edge_of_the_shard() {
    let rows = TensorSpec::row_major(&[64, 100], DataType::Bfloat16, Class::L1);
    let height = rows.clone().sharded(Shard::Height, GRID_4X4);
    assert_eq!(figures(&height), (12_800, 200, Some(4)));
    // 100 columns over 16 cores: 7 for each of 15 cores, the last ones padded.
    let width = rows.clone().sharded(Shard::Width, GRID_4X4);
    assert_eq!(figures(&width), (64 * 15 * 14, 14, Some(64)));
    assert_eq!(cores(&width).len(), 15);
    let block = rows.sharded(Shard::Block, GRID_4X4);
    assert_eq!(figures(&block), (12_800, 50, Some(16)));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |spec: TensorSpec| spec.buffer().unwrap_err();
    assert!(matches!(
        refused(bfloat16(&[1, 0, 32])),
        TensorError::Empty { .. }
    ));
    for shape in [
        vec![u64::MAX],
        vec![u64::MAX, 1],
        vec![u64::MAX - 31, 32],
        vec![1 << 40, 1 << 40],
    ] {
        for spec in [
            bfloat16(&shape),
            bfloat16(&shape).sharded(Shard::Block, Grid::new(32, 32)),
            TensorSpec::row_major(&shape, DataType::Bfloat16, Class::Dram),
        ] {
            assert!(
                matches!(refused(spec), TensorError::TooLarge { .. }),
                "{shape:?}"
            );
        }
    }
    assert_eq!(bfloat16(&[1 << 40, 1 << 40]).tiles(), u64::MAX);
    let rows = TensorSpec::row_major(&[32, 32], DataType::Bfloat4B, Class::Dram);
    assert_eq!(
        refused(rows).to_string(),
        "bfloat4_b exists in tiles only, not row-major"
    );
    for grid in [Grid::new(0, 4), Grid::new(4, 0), Grid::new(33, 1)] {
        let spec = bfloat16(&[32, 32]).sharded(Shard::Height, grid);
        assert_eq!(refused(spec), TensorError::Grid { grid });
    }
}
