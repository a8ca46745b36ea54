"""Code that a function mode cannot see: TorchScript, CUDA graphs, threads, operators written in Python."""
