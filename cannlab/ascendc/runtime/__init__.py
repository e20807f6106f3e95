"""Mirrors the package of the same name in pyasc."""
