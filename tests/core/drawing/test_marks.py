import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.drawing.marks import Mark, mark_of_points
from core.drawing.marks import group_marks as group


def group_marks(boxes):
    return group([upright(box) for box in boxes])


def upright(box) -> Mark:
    left, top, right, bottom = box
    return mark_of_points(np.array([(left, top), (right, top), (left, bottom), (right, bottom)], float), 0.0)


def test_digits_side_by_side_are_told_apart_and_sorted():
    marks = group_marks([(200, 20, 250, 100), (20, 25, 70, 98), (110, 18, 160, 102)])
    assert marks.groups == ((1,), (2,), (0,))
    assert not marks.stacked
    assert marks.notes == ()


def test_strokes_of_one_digit_stay_together():
    four = [(20, 20, 80, 70), (60, 20, 66, 110)]
    five = [(130, 20, 170, 100), (132, 18, 176, 24)]
    detached_bar = [(220, 30, 250, 100), (252, 28, 275, 34)]
    assert group_marks(four).groups == ((0, 1),)
    assert group_marks(five).groups == ((0, 1),)
    assert group_marks(detached_bar).groups == ((0, 1),)
    assert group_marks([*four, *five, *detached_bar]).groups == ((0, 1), (2, 3), (4, 5))


def test_a_small_mark_far_away_is_left_out_with_a_word():
    marks = group_marks([(20, 20, 70, 120), (240, 200, 250, 210)])
    assert marks.groups == ((0,),)
    assert "1 small mark" in marks.notes[0]


def test_one_above_the_other_is_said():
    assert group_marks([(100, 10, 150, 90), (105, 120, 150, 210)]).stacked
    assert not group_marks([(100, 10, 150, 30), (105, 32, 150, 210)]).stacked  # the bar of a 5


boxes = st.tuples(st.floats(0, 250), st.floats(0, 250), st.floats(1, 60), st.floats(1, 60)).map(
    lambda box: (box[0], box[1], box[0] + box[2], box[1] + box[3])
)


@given(st.lists(boxes, min_size=1, max_size=12))
def test_no_mark_is_in_two_digits_and_those_left_out_are_said(given_boxes):
    marks = group_marks(given_boxes)
    used = [index for group in marks.groups for index in group]
    assert len(used) == len(set(used))
    assert marks.groups
    assert bool(marks.notes) == (len(used) < len(given_boxes))
