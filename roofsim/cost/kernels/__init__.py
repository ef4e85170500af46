"""What the kernels of a pass ask of a card, and how long they take: one module for each class of kernel."""
