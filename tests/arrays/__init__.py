"""Arrays in and out of every operator: csrc/bindings/arrays*, the libraries they come from."""
