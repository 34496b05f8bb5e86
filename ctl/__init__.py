"""What administrators run on their computers: ``kubectl gpu-operator-post``. The image does not contain it."""
