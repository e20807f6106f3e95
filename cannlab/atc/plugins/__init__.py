"""What ATC's ONNX plugins make of an operator: refused, converted exactly, or converted into something else."""
