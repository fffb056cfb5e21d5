# entries.awk names.txt: the assembly of what programs call, for x86-64. Each entry jumps to where nccl_entries says:
# first, unless the function is an early one, to code that asks choice.c where, once; then to the body in this library
# or to the function of the program's own NCCL. Nothing but %r10, %r11 and %rax changes on the way, so an entry serves
# functions of all arguments and results. The entry's number is its place in names.txt.
function address(name) { return "\t.quad " name }
BEGIN {
    count = 0
    print "/* Made by cpu/client/nccl/entries.awk from names.txt. */"
    print "\t.text"
    print "first:\t/* %r11: the entry's number. The arguments in registers stay, and so does the stack. */"
    print "\t.cfi_startproc"
    split("r11 rdi rsi rdx rcx r8 r9", kept, " ")
    for (i = 1; i <= 7; i++)
        print "\tpushq %" kept[i] "\n\t.cfi_adjust_cfa_offset 8"
    print "\tmovl %r11d, %edi"
    print "\tmovq 56(%rsp), %rsi"
    print "\tcall nccl_choose"
    for (i = 7; i >= 1; i--)
        print "\tpopq %" kept[i] "\n\t.cfi_adjust_cfa_offset -8"
    print "\tjmp *%rax"
    print "\t.cfi_endproc"
}
/^#/ || NF == 0 { next }
{
    printf "\t.globl %s, p%s\n\t.type %s, @function\n\t.type p%s, @function\n", $1, $1, $1, $1
    printf "\t.balign 16\n%s:\np%s:\n\t.cfi_startproc\n\tendbr64\n", $1, $1
    printf "\tjmp *nccl_entries+%d(%%rip)\n\t.cfi_endproc\n\t.size %s, .-%s\n\t.size p%s, .-p%s\n", 8 * count, $1, $1,
        $1, $1
    printf "first_%d:\n\t.cfi_startproc\n\tendbr64\n\tmovl $%d, %%r11d\n\tjmp first\n\t.cfi_endproc\n", count, count
    names[count] = $1
    early[count] = $2 == "early"
    count++
}
END {
    print "\t.data\n\t.balign 8\n\t.globl nccl_entries\n\t.hidden nccl_entries\nnccl_entries:"
    for (i = 0; i < count; i++)
        print address(early[i] ? "flyt_" names[i] : "first_" i)
    print "\t.section .data.rel.ro, \"aw\"\n\t.balign 8\n\t.globl nccl_bodies\n\t.hidden nccl_bodies\nnccl_bodies:"
    for (i = 0; i < count; i++)
        print address("flyt_" names[i])
    print "\t.globl nccl_names\n\t.hidden nccl_names\nnccl_names:"
    for (i = 0; i < count; i++)
        print address("name_" i)
    print "\t.section .rodata\n\t.balign 4\n\t.globl nccl_entry_count\n\t.hidden nccl_entry_count\nnccl_entry_count:"
    print "\t.long " count
    for (i = 0; i < count; i++)
        printf "name_%d:\t.asciz \"%s\"\n", i, names[i]
    print "\t.section .note.GNU-stack, \"\", @progbits"
}
