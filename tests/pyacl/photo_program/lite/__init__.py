"""Helper classes that a program carries beside itself: a resource, a model, pictures."""
