"""Scripts that run during an image build. Each is one module on the standard library alone."""
