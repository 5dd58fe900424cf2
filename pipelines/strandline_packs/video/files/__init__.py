"""Files with videos in them, and clips: streams, packets, frames. It knows no stage."""
