"""The paper's claims in its order, each with its rule and the exhibit that has the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ratiorec_lab.reproduce import more_runs
from ratiorec_lab.reproduce.cells import PAPER
from ratiorec_lab.reproduce.figures import SAME, TENTH
from ratiorec_lab.reproduce.plan import Findings
from ratiorec_lab.reproduce.published import STAND_IN, method_name
from ratiorec_lab.reproduce.rules import (
    BEST_LIGHTGCN,
    READINGS,
    RUN_STEP,
    RUN_TIME,
    STEPS,
    WHOLE_FIT,
    above,
    above_all,
    all_of,
    as_published,
    below,
    bound_is_stable,
    chosen,
    close,
    deteriorates_early,
    end_of_l2_harms,
    enough_in_the_papers_steps,
    gain_is_not_stable,
    gains_most_on_amazon,
    l2_matters_more,
    most_speed_is_pointwise,
    never_reaches_first,
    not_below_the_best,
    or_by_the_paper,
    preset,
    same_rate_ends_lower,
    slightly_below,
    small_l2_harms_on_test,
    spread_over_alpha,
    timed_convergence,
    timed_step,
    times,
    trained,
    tuned,
    variant,
)
from ratiorec_lab.reproduce.verdict import COMPETITIVE, ONE_SEED, ORDER, Claim, Verdict, judged

DREGN, UNIFORM = preset("dregn-cf"), preset("dregn-cf-uniform")
POPULARITY, STATIC = preset("dregn-cf-popularity"), preset("dregn-cf-static")
DRE, PU, DNS = preset("dre"), preset("pu"), tuned("lightgcn-dns")
EQUAL = variant(more_runs.EQUAL_WEIGHTS, row="pu")
FINISHED = variant(more_runs.FINISHED, row="dregn-cf-static")
CONTINUED = variant(more_runs.CONTINUED, row="dregn-cf-static")
MULT_VAE, ENMF, NGCF = preset("mult-vae"), preset("enmf"), preset("ngcf")
AMAZON = ("amazon-book", STAND_IN)
FIRST_TWO = ("gowalla", "yelp2018")
T2, T3 = "table-effectiveness", "table-ablation"
F1, F1_EQUAL = "fig-efficiency", "fig-efficiency-steps"
F2, F3, F45, MORE = "fig-static-adaptive", "fig-dns", "fig-sensitivity", "more-runs"
F1_TIMES = "fig-efficiency-table"
_BY = {
    "gpu": "with the steps of both run eagerly on a GPU",
    "cpu": "by processor time, the steps of both run eagerly on a CPU",
}


def _other_times(name: str) -> Iterator[Claim]:
    """Other readings of «one to two orders of magnitude»."""
    sentence = f"DREGN-CF converges ten times sooner than {method_name(name)}"
    if name == "mult-vae":
        effort = times(name, "dregn-cf", RUN_TIME, least=ORDER)
        told = f"{sentence}, by training time"
        yield Claim(f"time-{name}", told, "abstract", F1_TIMES, effort, is_papers=False)
    for reading, timing in READINGS.items():
        yield Claim(
            f"time-{name}-{reading}",
            f"{sentence}, {_BY[reading]}",
            "abstract",
            F1_EQUAL,
            times(name, "dregn-cf", timed_convergence(timing), least=ORDER),
            is_papers=False,
        )
    yield Claim(
        f"fit-{name}",
        f"A whole fit of DREGN-CF takes a tenth of the time of one of {method_name(name)}",
        "abstract",
        F1_TIMES,
        times(name, "dregn-cf", WHOLE_FIT, least=ORDER),
        is_papers=False,
    )


def _claims() -> Iterator[Claim]:
    yield Claim(
        "figures",
        "DREGN-CF has the nDCG@20 that the paper prints",
        "Table 2",
        T2,
        as_published(DREGN),
    )
    yield Claim(
        "figures-tuned",
        "The same with λ, D̄ and rate chosen on validation pairs of each data set",
        "5.1.2, Table 2",
        "search-tested",
        as_published(chosen("dregn-cf")),
    )
    for name, source in (("NGCF", NGCF), ("Mult-VAE", MULT_VAE), ("ENMF", ENMF)):
        yield Claim(
            f"above-{name.lower()}",
            f"DREGN-CF ranks better than {name}",
            "5.2, Table 2",
            T2,
            above(DREGN, source),
        )
    yield Claim(
        "above-lightgcn",
        "DREGN-CF ranks better than LightGCN by a substantial margin on Yelp2018 and Amazon-Book",
        "5.2, Table 2",
        T2,
        above(DREGN, BEST_LIGHTGCN, least=ONE_SEED),
        ("yelp2018", *AMAZON),
    )
    yield Claim(
        "recall",
        "By R@20, too, DREGN-CF ranks better than NGCF, Mult-VAE and ENMF",
        "5.2, Table 2",
        T2,
        above_all(DREGN, (NGCF, MULT_VAE, ENMF), metric="recall@20"),
    )
    yield Claim(
        "recall-lightgcn",
        "By R@20, too, DREGN-CF ranks better than LightGCN by a substantial margin on Yelp2018 "
        "and Amazon-Book",
        "5.2, Table 2",
        T2,
        above(DREGN, BEST_LIGHTGCN, least=ONE_SEED, metric="recall@20"),
        ("yelp2018", *AMAZON),
    )
    yield Claim(
        "near-lightgcn",
        "On Gowalla LightGCN is ahead of DREGN-CF, not substantially",
        "5.2, Table 2",
        T2,
        slightly_below(DREGN, BEST_LIGHTGCN, ONE_SEED),
        ("gowalla",),
    )
    yield Claim(
        "vae-amazon",
        "On Amazon-Book Mult-VAE is comparable to LightGCN",
        "5.2, Table 2",
        T2,
        close(MULT_VAE, BEST_LIGHTGCN, COMPETITIVE),
        AMAZON,
    )
    yield Claim(
        "enmf-amazon",
        "On Amazon-Book ENMF falls far behind LightGCN",
        "5.2, Table 2",
        T2,
        above(BEST_LIGHTGCN, ENMF, least=ONE_SEED),
        AMAZON,
    )
    yield Claim(
        "gain-amazon",
        "The gain over LightGCN is largest on Amazon-Book",
        "5.2, Table 2",
        T2,
        gains_most_on_amazon(DREGN, BEST_LIGHTGCN),
        AMAZON,
    )
    yield Claim(
        "sooner-lightgcn",
        "DREGN-CF takes less training time to convergence than LightGCN",
        "5.3, Figure 1",
        F1_TIMES,
        times("lightgcn", "dregn-cf", RUN_TIME),
    )
    for name in ("lightgcn", "ngcf"):
        yield Claim(
            f"time-{name}",
            f"DREGN-CF converges one to two orders of magnitude sooner than {method_name(name)}, "
            "by training time",
            "abstract",
            F1_TIMES,
            times(name, "dregn-cf", RUN_TIME, least=ORDER),
        )
    for name in ("lightgcn", "ngcf", "mult-vae"):
        yield from _other_times(name)
    yield Claim(
        "steps-lightgcn",
        "DREGN-CF needs far fewer steps than LightGCN",
        "5.3, Figure 1",
        F1,
        times("lightgcn", "dregn-cf", STEPS),
    )
    yield Claim(
        "steps-enmf",
        "On Gowalla and Yelp2018 DREGN-CF needs more steps than ENMF",
        "5.3, Figure 1",
        F1,
        times("dregn-cf", "enmf", STEPS),
        FIRST_TWO,
    )
    yield Claim(
        "step-enmf",
        "A step of ENMF takes longer than one of DREGN-CF",
        "5.3",
        F1_TIMES,
        times("enmf", "dregn-cf", RUN_STEP),
        FIRST_TWO,
    )
    for reading, timing in READINGS.items():
        yield Claim(
            f"step-enmf-{reading}",
            f"A step of ENMF takes longer than one of DREGN-CF, {_BY[reading]}",
            "5.3",
            F1_EQUAL,
            times("enmf", "dregn-cf", timed_step(timing)),
            FIRST_TWO,
            is_papers=False,
        )
    yield Claim(
        "time-enmf",
        "ENMF takes longer than DREGN-CF in all, to convergence",
        "5.3, Figure 1",
        F1_TIMES,
        times("enmf", "dregn-cf", RUN_TIME),
        FIRST_TWO,
    )
    for reading, timing in READINGS.items():
        yield Claim(
            f"time-enmf-{reading}",
            f"ENMF takes longer than DREGN-CF in all, {_BY[reading]}",
            "5.3, Figure 1",
            F1_EQUAL,
            times("enmf", "dregn-cf", timed_convergence(timing)),
            FIRST_TWO,
            is_papers=False,
        )
    yield Claim(
        "amazon-enmf",
        "On Amazon-Book DREGN-CF is ahead of ENMF in steps, in the time of a step and in all",
        "5.3, Figure 1",
        F1_TIMES,
        all_of(*(times("enmf", "dregn-cf", of) for of in (STEPS, RUN_STEP, RUN_TIME))),
        AMAZON,
    )
    yield Claim(
        "amazon-vae",
        "On Amazon-Book Mult-VAE takes longer than DREGN-CF, in the time of a step and in all",
        "5.3, Figure 1",
        F1_TIMES,
        all_of(*(times("mult-vae", "dregn-cf", of) for of in (RUN_STEP, RUN_TIME))),
        AMAZON,
    )
    yield Claim(
        "steps-paper",
        "240 steps (Gowalla) and 480 (Yelp2018, Amazon-Book) are enough for the nDCG@20 that the "
        "paper prints",
        "5.3",
        T2,
        enough_in_the_papers_steps,
        also=("paper:more-runs", "paper:table-effectiveness"),
    )
    yield Claim(
        "dre-pu",
        "DRE (b) ranks better than PU regression (a) with the same uniform weights (here with a λ "
        "of its own for (a), 1e-6, and not the same one)",
        "5.4.1, Table 3",
        MORE,
        or_by_the_paper(trained(above(DRE, EQUAL), EQUAL)),
        also=(T3, "paper:more-runs"),
    )
    yield Claim(
        "dre-pu-weighted",
        "DRE (b) ranks better than PU regression (a) where a positive of (a) counts as 3,000 "
        "unlabelled pairs, and with a λ of its own for (a), .01",
        "5.4.1, Table 3",
        T3,
        above(DRE, PU),
        is_papers=False,
    )
    yield Claim(
        "dre-lightgcn",
        "DRE (b) ranks below LightGCN's pairwise loss",
        "5.4.1",
        T3,
        below(DRE, BEST_LIGHTGCN),
        also=(T2,),
    )
    yield Claim(
        "no-is",
        "(c) without the sampling correction ranks better than (h)",
        "5.4.2, Table 3",
        T3,
        above(preset("dregn-cf-no-is"), DREGN),
    )
    yield Claim(
        "no-nn",
        "(d) without the non-negative correction ranks slightly below (h)",
        "5.4.2, Table 3",
        T3,
        slightly_below(preset("dregn-cf-no-nn"), DREGN),
    )
    yield Claim(
        "popularity",
        "(f) popularity weights rank better than (e) uniform ones",
        "5.4.3, Table 3",
        T3,
        above(POPULARITY, UNIFORM),
    )
    yield Claim(
        "popularity-rivals",
        "(f) is competitive with the methods of Table 2: the best of NGCF, Mult-VAE, ENMF and "
        "LightGCN",
        "5.4.3",
        T3,
        not_below_the_best(POPULARITY, (NGCF, MULT_VAE, ENMF, BEST_LIGHTGCN), COMPETITIVE),
        also=(T2,),
    )
    yield Claim(
        "popularity-unstable",
        "The gain of (f) over (e) is not stable: it differs from data set to data set",
        "5.4.3",
        T3,
        gain_is_not_stable(POPULARITY, UNIFORM),
        ("yelp2018", *AMAZON),
    )
    yield Claim(
        "popularity-amazon",
        "The gain of (f) over (e) is largest on Amazon-Book",
        "5.4.3",
        T3,
        gains_most_on_amazon(POPULARITY, UNIFORM),
        AMAZON,
    )
    yield Claim(
        "hard-samples",
        "(h) hard-sample weights rank better than (e) and (f) by a large margin",
        "5.4.3, Table 3",
        T3,
        above_all(DREGN, (UNIFORM, POPULARITY), least=ONE_SEED),
    )
    yield Claim("alpha", "(f) is quite sensitive to α", "5.4.3", MORE, spread_over_alpha)
    yield Claim(
        "static",
        "(g) static weights of a finished first model collapse: (g) is below (e)",
        "5.4.4, Table 3",
        MORE,
        or_by_the_paper(below(FINISHED, UNIFORM)),
        also=(T3, "paper:more-runs", "paper:table-ablation"),
    )
    yield Claim(
        "static-continued",
        "(g) is below (e) where the second model starts from the finished first one",
        "5.4.4",
        MORE,
        or_by_the_paper(below(CONTINUED, UNIFORM)),
        also=(T3, "paper:more-runs", "paper:table-ablation"),
        is_papers=False,
    )
    yield Claim(
        "static-early",
        "(g) is below (e) where the first model is trained for 5 epochs (protocol validated) or "
        "for as many as the second (protocol paper)",
        "5.4.4, Table 3",
        T3,
        below(STATIC, UNIFORM),
        is_papers=False,
    )
    for line, words in ((SAME, "the same rate"), (TENTH, "a tenth of the rate")):
        yield Claim(
            f"static-early-{'same' if line == SAME else 'tenth'}",
            f"Static weights with {words} deteriorate in the early phase",
            "5.4.4, Figure 2",
            F2,
            deteriorates_early(line),
            ("yelp2018",),
        )
    yield Claim(
        "static-same-rate",
        "With the same rate static weights end lower than with a tenth of it",
        "5.4.4, Figure 2",
        F2,
        same_rate_ends_lower,
        ("yelp2018",),
    )
    for line, words in ((SAME, "the same rate"), (TENTH, "a tenth of the rate")):
        yield Claim(
            f"static-first-{'same' if line == SAME else 'tenth'}",
            f"Static weights with {words} never reach the first model",
            "5.4.4, Figure 2",
            F2,
            never_reaches_first(line),
            ("yelp2018",),
        )
    yield Claim(
        "dns-lightgcn",
        "DNS improves LightGCN's final ranking",
        "5.5, Figure 3",
        T2,
        above(DNS, preset("lightgcn")),
        also=(F3,),
    )
    yield Claim(
        "dns-steps",
        "DNS shortens LightGCN's convergence",
        "5.5, Figure 3",
        F3,
        times("lightgcn", "lightgcn-dns", STEPS),
    )
    yield Claim(
        "uniform-last",
        "Uniform weights rank below LightGCN, LightGCN-DNS and DREGN-CF",
        "5.5, Figure 3",
        T2,
        all_of(*(below(UNIFORM, one) for one in (BEST_LIGHTGCN, DNS, DREGN))),
        also=(T3, F3),
    )
    yield Claim(
        "uniform-steps",
        "Uniform weights converge in fewer steps than LightGCN",
        "5.5, Figure 3",
        F3,
        times("lightgcn", "dregn-cf-uniform", STEPS),
    )
    yield Claim(
        "dregn-dns",
        "DREGN-CF ranks better than LightGCN-DNS by a large margin",
        "5.5, Figure 3",
        T2,
        above(DREGN, DNS, least=ONE_SEED),
        also=(F3,),
    )
    yield Claim(
        "dregn-dns-steps",
        "DREGN-CF converges in fewer steps than LightGCN-DNS",
        "5.5, Figure 3",
        F3,
        times("lightgcn-dns", "dregn-cf", STEPS),
        also=(F1_TIMES,),
    )
    yield Claim(
        "dregn-dns-time",
        "DREGN-CF takes less training time to convergence than LightGCN-DNS, by a large margin",
        "5.5",
        F1_TIMES,
        times("lightgcn-dns", "dregn-cf", RUN_TIME, least=1 + ONE_SEED),
    )
    for reading, timing in READINGS.items():
        yield Claim(
            f"dregn-dns-time-{reading}",
            f"DREGN-CF converges sooner than LightGCN-DNS, {_BY[reading]}",
            "5.5",
            F1_EQUAL,
            times("lightgcn-dns", "dregn-cf", timed_convergence(timing), least=1 + ONE_SEED),
            is_papers=False,
        )
    yield Claim(
        "dregn-uniform-steps",
        "DREGN-CF converges in fewer steps than uniform weights",
        "5.5, Figure 3",
        F3,
        times("dregn-cf-uniform", "dregn-cf", STEPS),
    )
    yield Claim(
        "speed-pointwise",
        "Most of the gain in steps over LightGCN is due to the pointwise loss, not to the weights",
        "5.5",
        F3,
        most_speed_is_pointwise,
    )
    yield Claim("large-l2", "A large λ does harm", "5.6, Figure 4", F45, end_of_l2_harms(max))
    yield Claim(
        "small-l2",
        "A small λ does harm, most of all on Gowalla (validation pairs, as in the paper)",
        "5.6, Figure 4",
        F45,
        end_of_l2_harms(min),
    )
    yield Claim(
        "small-l2-test",
        "A small λ does harm on the test part",
        "5.6",
        MORE,
        small_l2_harms_on_test,
        also=(T2,),
        is_papers=False,
    )
    yield Claim(
        "bound", "Figures are stable once D̄ is large", "5.6, Figure 5", F45, bound_is_stable
    )
    yield Claim("l2-bound", "λ matters more than D̄", "5.6", F45, l2_matters_more)


CLAIMS: tuple[Claim, ...] = tuple(_claims())


def verdicts(findings: Findings, exhibits: Sequence[str]) -> tuple[Verdict, ...]:
    """A verdict on every claim whose exhibit is among these.

    Steps that were timed by themselves have the presets' batches, which `paper` has not.
    """
    if findings.plan.is_quick:
        return ()
    shown = [one for one in exhibits if one != F1_EQUAL or findings.plan.protocol != PAPER]
    return tuple(judged(findings, claim) for claim in CLAIMS if claim.exhibit in shown)
