/* frames.h - included by the compiler before everything else (meson.build) where the program is linked statically.
 *
 * How to unwind the stack is then told twice: in .eh_frame, which the shared library needs for its callers' sake (exceptions,
 * cancellation), and in .debug_frame, which debuggers read and `strip` removes. So src/frames.ld can leave the former out of the
 * program. */
#ifndef FRAMES_H
#define FRAMES_H

__asm__(".cfi_sections .eh_frame, .debug_frame");

#endif
