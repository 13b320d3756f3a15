"""Cuts for a factored dual: which kinds are sought when, how hard, and what counts as violated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmcopt.bounds import violated_cuts
from mmcopt.bounds.label_lift import Cuts, Lift
from mmcopt.solving.runs import ends_late, seconds_left
from mmcopt.types import Floats

SEARCH = 6e-11  # seconds for all triangles, times the cube of the number of nodes, about
SEARCH_ODD = 8e-10  # seconds for an odd set, times its size and the number of nodes, about
SIZES = (5, 7)  # of odd sets
FEWEST = 10  # searches for odd sets of a size, times the number of nodes, at first
MOST = 0.02  # violations below this part of the diagonal are not cut off, at first
RARE = 0.5  # triangles found, times the number of nodes, that are few
RESTS = 3  # searches without triangles after one that has found few


@dataclass
class CutSearch:
    """Searches for violated cuts, each as thorough as those before it have shown to be needed.

    Triangles are found by enumeration, odd sets by local search from random sets and from the
    smallest that have a price. When few are found, lesser violations count, searches for odd sets
    begin more often, and triangles, which by then hold nearly all, are left out of some searches.
    """

    triangles: int  # cuts of a kind that are added at a time
    odd: int
    most: int  # searches for odd sets of a size, times the number of nodes
    end: float  # violations below this part of the diagonal are never cut off
    starts: int = FEWEST
    least: float = MOST
    least_odd: float = MOST
    rests: int = 0  # searches that triangles are still left out of
    searches: int = 0

    @property
    def through(self) -> bool:
        """Whether the least violations count by now."""
        return self.least <= self.end

    def found(self, lift: Lift, X: Floats, priced: Cuts) -> Cuts:
        """Cuts that X violates; ``priced`` are those that count already."""
        self.searches += 1
        cuts = Cuts()
        if self.rests:
            self.rests -= 1
        elif self.time_for_triangles(lift):
            cuts = self._triangles(lift, X)
        return cuts.join(self._odd_sets(lift, X, priced)) if lift.binary and self.odd else cuts

    @staticmethod
    def time_for_triangles(lift: Lift) -> bool:
        """Whether a search that has no parts would end before the deadline."""
        return not ends_late(SEARCH * lift.m**3)

    def _triangles(self, lift: Lift, X: Floats) -> Cuts:
        found = violated_cuts.spread(lift, X, self.triangles, self.least * lift.top)
        if len(found) < lift.m:
            self.least = max(self.end, self.least / 2)
        if len(found) < RARE * lift.m and lift.binary and self.odd:
            self.rests = RESTS
        return found

    def _odd_sets(self, lift: Lift, X: Floats, priced: Cuts) -> Cuts:
        found = Cuts()
        known = priced.odd[np.count_nonzero(priced.odd, axis=1) == SIZES[0]][:, :SIZES[0]]
        for size in SIZES:
            in_time = seconds_left() / (SEARCH_ODD * size * lift.m**2)
            starts = int(min(self.starts, self.most, in_time))
            if starts > 0:
                sets = violated_cuts.odd_sets(lift, X, self.odd, self.least_odd, self.searches,
                                              starts, size, known)
                found = found.join(Cuts(odd=sets))
        if len(found) < self.odd:
            self.starts = min(2 * self.starts, self.most)
        if len(found) < lift.m:
            self.least_odd = max(2 * self.end, self.least_odd / 2)
        return found
