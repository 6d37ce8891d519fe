"""What makes the documentation site: pages written from the code, and blocks of figures filled into written pages."""
