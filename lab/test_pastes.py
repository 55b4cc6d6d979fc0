"""Tests of the pastes' machinery that start nothing: `lab/pastes/run` judges them."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "pastes"))
sys.dont_write_bytecode = True

import cases  # noqa: E402
import damage  # noqa: E402

BOTTLENECKS = {
    "memory",
    "disk",
    "cpu",
    "interrupts",
    "channel",
    "controller",
    "network",
    "application",
    "throttle",
    "none",
    "unknown",
}


class Pastes(unittest.TestCase):
    def test_every_case_has_a_name_of_its_own_an_answer_and_text(self):
        names = [name for name, _, _ in cases.all_cases()]
        self.assertEqual(len(names), len(set(names)))
        for name, right, texts in cases.all_cases():
            self.assertTrue({answer.split(":")[0] for answer in right} <= BOTTLENECKS, name)
            self.assertTrue(texts and all(text.strip() for text in texts), name)

    def test_damage_changes_text_and_leaves_some(self):
        for kind, texts in damage.all_damages([f"a b c d e f g h {number}\n" * 6 for number in range(2)]):
            self.assertEqual(len(texts), 1 if kind.startswith("without_tool") else 2, kind)
            self.assertTrue(all(texts), kind)


if __name__ == "__main__":
    unittest.main()
