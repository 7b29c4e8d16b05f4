import { count, counted } from "../format";
import type { Comparison } from "./comparison";

/** Says which tensors are not compared, since not all runs have them; "" if there are none. */
export function onlyText({ about }: Comparison): string {
  const lacking = about.runs
    .map(({ name }, i) => ({ name, sites: about.only[i] ?? 0 }))
    .filter(({ sites }) => sites > 0)
    .map(({ name, sites }) => `${name} has ${counted(sites, "tensor")} that not all of them have`);
  return lacking.length === 0 ? "" : `Not compared: ${lacking.join("; ")}.`;
}

/** Says that rows are blocks, since there are too many tensors; "" if they are not. */
export function mergedText({ about }: Comparison, sites: number): string {
  const blocks = about.merged.every(Boolean) && about.paths.length < sites / 4;
  return blocks
    ? `There are ${count(sites)} tensors: too many for a row each, so blocks are compared as a whole. Choose some with "Only" to see them one by one.`
    : "";
}
