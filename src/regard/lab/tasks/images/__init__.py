"""Tasks on images: digits in clutter, denoising, photographs with fixations."""
