"""The passes of the compiler, a file each."""
