"""Bundles of Firefox Translations' students, from arrays: without torch and without the room `model`."""

from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.students.building import build_bundle
from xuanzang.export.students.student import Student, StudentError

__all__ = ["ParityError", "Student", "StudentError", "build_bundle"]
