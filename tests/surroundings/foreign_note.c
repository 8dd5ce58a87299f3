/*
 * A library with notes in the library's name that lead out of it, end early, or claim to be longer
 * than they are.
 */
int foreign_note;

/* Name and type of a note; its content follows. */
#define NOTE(bytes) ".long 6, " #bytes ", 2\n.asciz \"ttmem\"\n.balign 4\n"

__asm__(".pushsection .note.ttmem, \"a\", %note\n"
        ".balign 4\n" /* Beyond everything, and before it. */
        NOTE(24) ".quad 0x4141414141, 0x4141414141, 0\n" /* */
        NOTE(24) ".quad -0x4141414141, -0x4141414141, 0\n"
        /* Into itself, which is not writable. */
        NOTE(24) ".quad 0, 0, 0\n"
        /* Too short for what it should say. */
        NOTE(4) ".long 1\n"
        /* Longer than its section. */
        NOTE(0x7fffffff) ".long 1\n"
        ".popsection\n");
