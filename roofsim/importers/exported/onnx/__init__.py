"""Read ONNX graphs: their structure without their weights, shapes by onnx's own inference, ops by one table."""
