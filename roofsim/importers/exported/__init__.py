"""Read programs that other tools exported, ONNX graphs among them, into the form of captured programs."""
