import { count, counted } from "../format";
import type { Comparison } from "./comparison";

/** Says which tensors are not compared, since not all runs have them; "" if there are none. */
export function onlyText({ about }: Comparison): string {
  const lacking = about.runs
    .map(({ name }, i) => ({ name, sites: about.only[i] ?? 0 }))
    .filter(({ sites }) => sites > 0)
    .map(({ name, sites }) => `${counted(sites, "tensor")} of ${name} that not all runs have`);
  return lacking.length === 0 ? "" : `Not compared: ${lacking.join("; ")}.`;
}

/** Says that rows are blocks, since there are too many tensors; "" if they are not. */
export function mergedText({ about }: Comparison, sites: number): string {
  const blocks = about.merged.every(Boolean) && about.paths.length < sites / 4;
  return blocks
    ? `The runs have ${count(sites)} tensors, too many for one row each, so rows are whole blocks. Use "Only" to select single tensors.`
    : "";
}
