"""Scripts that run during an image build. Each is a single module that needs no libraries."""
