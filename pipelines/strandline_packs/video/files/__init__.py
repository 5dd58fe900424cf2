"""Video files and clips: streams, packets, frames. The package must not know stages."""
