"""Trained policies outside of Python: as ONNX, as C, as smaller students, and all of them compared."""
