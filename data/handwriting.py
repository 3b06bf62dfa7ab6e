"""How a writer's hand changes images of digits."""

import math
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from data import randomness

_SIZE = (28, 28)


class Style(NamedTuple):
  """How images are written, one number each (or one for all).

  Attributes:
    slant: How far the top leans to the right, per unit of height.
    rotation: In radians, clockwise.
    width: What the width is multiplied by.
    height: What the height is multiplied by.
    stroke: From -1, a fine pen, to 1, a broad one.
    ink: The brightness of full ink.
    paper: The brightness of the paper.
  """

  slant: Any
  rotation: Any
  width: Any
  height: Any
  stroke: Any
  ink: Any
  paper: Any


def draw_style(key: tf.Tensor, shape: Sequence[int]) -> Style:
  """Draws styles within the limits of legibility."""
  u = 2.0 * randomness.uniform(key, [len(Style._fields), *shape]) - 1.0
  return Style(
    slant=0.3 * u[0],
    rotation=math.radians(10) * u[1],
    width=tf.exp(0.2 * u[2]),
    height=tf.exp(0.15 * u[3]),
    stroke=u[4],
    ink=0.85 + 0.15 * u[5],
    paper=0.1 + 0.1 * u[6],
  )


def wobble(key: tf.Tensor, style: Style, shape: Any) -> Style:
  """Returns the style of single images: nobody writes a digit twice alike."""
  u = 2.0 * randomness.uniform(key, tf.concat([[4], shape], axis=0)) - 1.0
  return style._replace(
    slant=style.slant + 0.06 * u[0],
    rotation=style.rotation + math.radians(3) * u[1],
    width=style.width * tf.exp(0.05 * u[2]),
    height=style.height * tf.exp(0.05 * u[3]),
  )


def write(images: tf.Tensor, style: Style) -> tf.Tensor:
  """Returns images, uint8 [size, 28, 28], in a style: float32, [0, 1].

  The geometry of `style` has to be given for each image.
  """
  strokes = tf.cast(images, tf.float32)[..., tf.newaxis] / 255.0
  strokes = _warp(_set_stroke(strokes, _per_image(style.stroke)), style)
  ink, paper = _per_image(style.ink), _per_image(style.paper)
  return paper + (ink - paper) * strokes


def _set_stroke(images: tf.Tensor, stroke: tf.Tensor) -> tf.Tensor:
  """Broadens strokes by up to a pixel on each side, or thins them by less."""

  def widest(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.max_pool2d(x, ksize=3, strides=1, padding='SAME')

  broad = 0.8 * tf.maximum(stroke, 0.0)
  fine = 0.5 * tf.maximum(-stroke, 0.0)
  return (
    images
    + broad * (widest(images) - images)
    - fine * (images + widest(-images))
  )


def _warp(images: tf.Tensor, style: Style) -> tf.Tensor:
  """Slants, rotates and scales images about their centre."""
  cos, sin = tf.cos(style.rotation), tf.sin(style.rotation)
  # From a point of the result to one of the image: undo the rotation, then the
  # slant, then the scaling. y grows downwards.
  a = (cos - style.slant * sin) / style.width
  b = (sin + style.slant * cos) / style.width
  c = -sin / style.height
  d = cos / style.height
  centre = (_SIZE[0] - 1) / 2
  zero = tf.zeros_like(a)
  transforms = [
    a,
    b,
    centre * (1.0 - a - b),
    c,
    d,
    centre * (1.0 - c - d),
    zero,
    zero,
  ]
  warped = tf.raw_ops.ImageProjectiveTransformV3(
    images=images,
    transforms=tf.stack(transforms, axis=-1),
    output_shape=_SIZE,
    fill_value=0.0,
    interpolation='BILINEAR',
    fill_mode='CONSTANT',
  )
  return tf.ensure_shape(warped, [None, *_SIZE, 1])


def _per_image(value: tf.Tensor) -> tf.Tensor:
  """Makes one number for each image (or for all) broadcast over its pixels."""
  return tf.reshape(value, [-1, 1, 1, 1])
