"""From ink to the 28x28 image the network sees.

boxes.py         Boxes around ink: cutting out, padding, squaring.
diagnosis.py     Why an answer may be wrong, in words with the numbers behind them, and which step would mend it.
digit_image.py   Turn a drawing or a picture into the 28x28 image the model sees, as MNIST's own were made, with every stage
from_picture.py  A picture -> digits in MNIST's form.
from_strokes.py  Strokes of a pen -> digits in MNIST's form.
limits.py        What a drawing or a picture may take, looked at before any work is done on it.
marks.py         Which marks belong to one digit: by the gaps between their boxes, or by a slanted line between them.
measures.py      A 28x28 image measured against MNIST's: pen width, place, size, ink, pieces.
paper_lines.py   The lines of ruled and squared paper, taken out from under the ink.
picture.py       An uploaded picture, read safely, and the ink in it: polarity, uneven paper and specks taken out.
pins.py          A person's own test set: up to ten drawings with the digit that was meant, kept beside the runs.
read.py          Any source, strokes, a picture or a test digit -> the digits in it. The one way in.
sheet.py         A sheet of paper on a desk, or a dark tile on a light page: the part of a picture on which digits stand.
strokes.py       What a person drew: strokes with a pen, independent of any screen. Read from a canvas, drawn as grey pixels.
touching.npz     Weights of the network that tells one digit from two that touch.
touching.py      Is this one digit, or two that touch? A small network that saw both, and the places where two could be cut
"""
