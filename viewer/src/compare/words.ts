import { count, counted } from "../format";
import type { Comparison } from "./comparison";

/** What is not compared, because not all runs have it; "" if all have all. */
export function onlyText({ about }: Comparison): string {
  const lacking = about.runs
    .map(({ name }, i) => ({ name, sites: about.only[i] ?? 0 }))
    .filter(({ sites }) => sites > 0)
    .map(({ name, sites }) => `${name} has ${counted(sites, "tensor")} that not all of them have`);
  return lacking.length === 0 ? "" : `Not compared: ${lacking.join("; ")}.`;
}

/** That rows are whole blocks, because there are too many layers for one each; else "". */
export function mergedText({ about }: Comparison, sites: number): string {
  const blocks = about.merged.every(Boolean) && about.paths.length < sites / 4;
  return blocks
    ? `There are ${count(sites)} tensors: too many for a row each, so blocks are compared as a whole. Choose some with "Only" to see them one by one.`
    : "";
}
