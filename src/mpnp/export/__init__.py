"""Trained models where there is no JAX: as NumPy, ONNX and HTML."""
