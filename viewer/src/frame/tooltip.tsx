import type { ComponentChildren, HTMLAttributes } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { beside, type Size } from "./placement";

interface TooltipProps extends HTMLAttributes<HTMLDivElement> {
  /** The position of the pointer in the window. */
  at: { x: number; y: number };
  children: ComponentChildren;
}

/** Text next to the pointer, inside of the window. */
export function Tooltip({ at, children, ...attributes }: TooltipProps) {
  const box = useRef<HTMLDivElement>(null);
  // Its size follows from its text, so it is placed after every change, before it is painted.
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const size: Size = { width: element.offsetWidth, height: element.offsetHeight };
    const { clientWidth: width, clientHeight: height } = document.documentElement;
    const { left, top } = beside(at, size, { width, height });
    element.style.transform = `translate(${left}px, ${top}px)`;
  });
  return (
    <div class="readout" {...attributes} ref={box}>
      {children}
    </div>
  );
}
