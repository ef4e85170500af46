"""Steps of several GPUs, and what each mechanism of them is worth."""
