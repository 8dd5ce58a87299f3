//! A RISC-V executable that the runtime's loader accepts.
//!
//! The loader wants ELF32, little endian, `ET_EXEC`, one loadable segment at the entry
//! point, and at least one relocation section against loaded contents: kernels run
//! wherever the ring has room, so it moves their text and takes a file without
//! relocations for one that was linked wrongly. An empty list of them satisfies it.

use anyhow::Context as _;
use object::Endianness;
use object::elf;
use object::write::elf::{FileHeader, ProgramHeader, SectionHeader, Sym, Writer};

/// Alignment of text in memory and in the file.
const TEXT_ALIGNMENT: u32 = 16;

/// `addi x0, x0, 0`: what the text is made of.
const NOP: [u8; 4] = 0x0000_0013_u32.to_le_bytes();

/// `jalr x0, 0(x1)`: what it ends with.
const RETURN: [u8; 4] = 0x0000_8067_u32.to_le_bytes();

/// An executable of `text_bytes` bytes of text at `base`.
pub(crate) fn executable(base: u32, text_bytes: u32) -> anyhow::Result<Vec<u8>> {
    let text = text(text_bytes)?;
    let mut image = Vec::new();
    let mut writer = Writer::new(Endianness::Little, false, &mut image);

    // Every part is reserved in the order in which it is written below.
    writer.reserve_file_header();
    writer.reserve_program_headers(1);
    let text_offset = writer.reserve(text.len(), TEXT_ALIGNMENT as usize);
    let start_name = writer.add_string(b"_start");
    let text_name = writer.add_section_name(b".text");
    let relocations_name = writer.add_section_name(b".rela.text");
    let text_index = writer.reserve_section_index();
    writer.reserve_section_index();
    let symbols_index = writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_symbol_index(Some(text_index));
    let relocations_offset = writer.reserve_relocations(0, true);
    writer.reserve_symtab();
    writer.reserve_strtab();
    writer.reserve_shstrtab();
    writer.reserve_section_headers();

    writer
        .write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_EXEC,
            e_machine: elf::EM_RISCV,
            e_entry: u64::from(base),
            e_flags: 0,
        })
        .context("no file header")?;
    writer.write_align_program_headers();
    writer.write_program_header(&ProgramHeader {
        p_type: elf::PT_LOAD,
        p_flags: elf::PF_R | elf::PF_X,
        p_offset: text_offset as u64,
        p_vaddr: u64::from(base),
        p_paddr: u64::from(base),
        p_filesz: u64::from(text_bytes),
        p_memsz: u64::from(text_bytes),
        p_align: u64::from(TEXT_ALIGNMENT),
    });
    writer.write_align(TEXT_ALIGNMENT as usize);
    writer.write(&text);
    writer.write_align_relocation();
    writer.write_null_symbol();
    writer.write_symbol(&Sym {
        name: Some(start_name),
        section: Some(text_index),
        st_info: (elf::STB_GLOBAL << 4) | elf::STT_FUNC,
        st_other: elf::STV_DEFAULT,
        st_shndx: 0,
        st_value: u64::from(base),
        st_size: u64::from(text_bytes),
    });
    writer.write_strtab();
    writer.write_shstrtab();

    writer.write_null_section_header();
    writer.write_section_header(&SectionHeader {
        name: Some(text_name),
        sh_type: elf::SHT_PROGBITS,
        sh_flags: u64::from(elf::SHF_ALLOC | elf::SHF_EXECINSTR),
        sh_addr: u64::from(base),
        sh_offset: text_offset as u64,
        sh_size: u64::from(text_bytes),
        sh_link: 0,
        sh_info: 0,
        sh_addralign: u64::from(TEXT_ALIGNMENT),
        sh_entsize: 0,
    });
    writer.write_relocation_section_header(
        relocations_name,
        text_index,
        symbols_index,
        relocations_offset,
        0,
        true,
    );
    // The one local symbol is the null symbol.
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Ok(image)
}

fn text(text_bytes: u32) -> anyhow::Result<Vec<u8>> {
    let instructions = usize::try_from(text_bytes).context("more text than memory")? / NOP.len();
    let mut text = NOP.repeat(instructions.saturating_sub(1));
    text.extend(RETURN);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::read::elf::{ElfFile32, FileHeader as _, ProgramHeader as _, SectionHeader as _};

    #[test]
    fn it_is_what_the_loader_asks_for() {
        let image = executable(0xffc0_0000, 1024).expect("it is small");
        let file = ElfFile32::<Endianness>::parse(&*image).expect("it is an ELF file");
        let endian = file.endian();
        let header = file.elf_header();
        assert_eq!(header.e_type(endian), elf::ET_EXEC);
        assert_eq!(header.e_machine(endian), elf::EM_RISCV);
        assert_eq!(header.e_phoff(endian) % 4, 0);
        assert_eq!(header.e_shoff(endian) % 4, 0);

        let [segment] = file.elf_program_headers() else {
            panic!("one segment expected");
        };
        assert_eq!(segment.p_type(endian), elf::PT_LOAD);
        assert_eq!(segment.p_vaddr(endian), header.e_entry(endian));
        assert_eq!(segment.p_filesz(endian), 1024);
        assert_eq!(segment.data(endian, &*image).map(<[u8]>::len), Ok(1024));

        let sections = file.elf_section_table();
        let relocations: Vec<_> = sections
            .iter()
            .filter(|section| section.sh_type(endian) == elf::SHT_RELA)
            .collect();
        let [relocation] = relocations[..] else {
            panic!("one relocation section expected");
        };
        let target = sections
            .section(object::SectionIndex(relocation.sh_info(endian) as usize))
            .expect("it names a section");
        assert_eq!(target.sh_type(endian), elf::SHT_PROGBITS);
        assert_ne!(target.sh_flags(endian) & elf::SHF_ALLOC, 0);
        assert_eq!(relocation.sh_entsize(endian), 12);
    }

    #[test]
    fn text_of_no_bytes_is_still_an_instruction() {
        assert_eq!(text(0).expect("it is small"), RETURN);
    }
}
