"""The front end: what a kernel may hold, and how it is run."""
