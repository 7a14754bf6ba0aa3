"""Export of trained policies: ONNX, C, distilled students, and the comparison of all forms."""
