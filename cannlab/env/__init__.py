"""Floor 3: the environment: which versions are emulated, what is installed here, and how a shell is set up."""
