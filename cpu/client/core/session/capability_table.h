/*
 * capability_table.h: software that does not work with every compute capability of the software GPU.
 *
 * SOFTWARE(name, file, folder, capabilities, reason)
 *   file          the beginning of the name of a file that the software loads into its process
 *   folder        text that the path of the file contains; "": any
 *   capabilities  those that the software works with, the best one first, times ten; 0 ends the list
 *   reason        why it needs one of these. Rows of software that needs the standard one matter where a program has
 *                 loaded other software too
 *
 * A row was measured: the software was run with 13.0, 12.0 and 9.0. What works with all of them has no row. Rows that
 * come first are asked first where no capability suits all (capability.c).
 */

/* Its LLVM ends the process where it is asked for an architecture that it does not know. */
SOFTWARE("Triton", "libtriton.so", "", (120, 90), "the compiler in it knows no architecture newer than 12.x")
/* Triton is loaded by torch.compile, when the GPU is in use already. PyPI's packages come with it. */
SOFTWARE("PyTorch of PyPI", "libtorch_cuda.so", "/torch/lib/", (120, 90),
         "torch.compile loads Triton, whose compiler knows no architecture newer than 12.x")
/* PyTorch refuses major numbers that it does not know, and NVIDIA's libraries of 12.4 take 9.9 for a new member of the
   family whose kernels they have as PTX (docs/pytorch.md). */
SOFTWARE("PyTorch of Debian", "libtorch_cuda.so", "-linux-gnu/libtorch_cuda", (99),
         "it knows no major number above 9, and its libraries have PTX for what is newer than 9.0")
/* Its Python looks the architecture up, and knows those up to 12.1. */
SOFTWARE("CuTe", "_cutlass_ir.", "", (120, 90), "its table of architectures ends with 12.1")
/* The 21 operations of tests/software/jax_ops.py need 43 s of a processor with 9.0, 172 s with 12.0 and 168 s with
   13.0, and all of them are right. XLA tries many kernels for a matrix product before it takes one. JAX asks CUDA for
   its devices before it loads its largest library. Where other software needs 13.0, JAX is only slower; what needs 12.0
   of the rows here takes 9.0, too. */
SOFTWARE("JAX", "_versions.so", "/jax_cuda", (90, 130), "with newer ones its first matrix product takes minutes")
/* Matrix products: for 12.0 and 9.0 cuBLAS chooses kernels that it has as machine code only. */
SOFTWARE("TensorFlow", "libtensorflow_framework.so", "", (130), "its cuBLAS has PTX for what is newer than it is")
SOFTWARE("cuML", "libcuml", "", (130), "its cuBLAS has PTX for what is newer than it is")
SOFTWARE("GPU4PySCF", "libgint.so", "/gpu4pyscf/", (130), "its cuBLAS has PTX for what is newer than it is")
