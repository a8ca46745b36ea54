"""What hides the code that it runs: TorchScript, CUDA graphs, threads, operators in Python. It is shown, or told."""
