import { counted } from "../format";
import type { Series } from "./series";

/** The size of a site, and what is measured. */
export function SiteFacts({ series }: { series: Series }) {
  const { sites, shape, elements, meaning } = series.about;
  const facts = [
    sites > 1 ? `${counted(sites, "tensor")}, merged into one` : shape,
    elements > 0 ? counted(elements, "element") : "",
  ];
  return (
    <p class="site-facts">
      <span class="site-shape">{facts.filter((fact) => fact !== "").join(" · ")}</span>
      {meaning && <span class="site-meaning">{meaning}</span>}
    </p>
  );
}
