"""The hostile trial: what Diskwright promises, held against those who do not wish it well."""

AREAS = ["guard", "recorder", "damage", "servers", "names", "links", "bounds", "sectors", "smaller",
         "limits"]
