"""Say whether to rent or to buy: ``roofsim rent-or-buy llama3-8b --gpu h100 --gpus 8 --utilisation 60%``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.flags import Csv, Html, Json, Scenario
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text
from roofsim.cli.words import Option

Purchase = Annotated[
    str | None,
    Option(
        "--purchase",
        metavar="USD",
        panel="Money",
        help="Price of all machines together. [default: the catalog's price of the node, or of the cards in servers]",
    ),
]
Rent = Annotated[
    str | None,
    Option(
        "--rent", metavar="USD", panel="Money", help="Dollars per hour of one GPU. [default: the price that is known]"
    ),
]
PowerPrice = Annotated[
    str | None, Option("--power-price", metavar="USD", panel="Money", help="Dollars per kWh of electricity.")
]
Pue = Annotated[
    str | None, Option("--pue", metavar="X", panel="Money", help="Power of the data centre over that of its machines.")
]
Hosting = Annotated[
    str | None,
    Option("--hosting", metavar="USD", panel="Money", help="Dollars per kW and month of a place in a data centre."),
]
Years = Annotated[str | None, Option("--years", metavar="N", panel="Money", help="Years that the machines are used.")]
Utilisation = Annotated[
    str | None,
    Option("--utilisation", metavar="SHARE", panel="Money", help="Share of the hours in which they work: 60%."),
]
Resale = Annotated[
    str | None,
    Option(
        "--resale",
        metavar="SHARE",
        panel="Money",
        help="Share of the price that a sale at the end of use brings: 30%. [default: by years of use]",
    ),
]
Against = Annotated[
    str | None,
    Option(
        "--against",
        metavar="CARD",
        panel="Money",
        help="Another card: the rent at which it does the same work for as much.",
    ),
]


@scenario_options
def rent_or_buy(
    *,
    scenario: Scenario,
    purchase: Purchase = None,
    rent: Rent = None,
    power_price: PowerPrice = None,
    pue: Pue = None,
    hosting: Hosting = None,
    years: Years = None,
    utilisation: Utilisation = None,
    resale: Resale = None,
    against: Against = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Say whether to rent or to buy GPUs for a scenario: what an hour of either costs, and where both cost the same."""
    from roofsim.decide.owning import owning_document

    assume = {
        "power_price": power_price,
        "pue": pue,
        "hosting": hosting,
        "years": years,
        "utilisation": utilisation,
        "resale": resale,
    }
    checked_report(html)
    document = document_of(scenario, overrides)
    answer = owning_document(document, purchase=purchase, rent=rent, against=against, assume=assume)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
    stated = {name: value for name, value in assume.items() if value is not None}
    arguments = {"purchase": purchase, "rent": rent, "against": against, "assume": stated}
    write_report(html, answer, "rent_or_buy", document, arguments)
