import { type ComponentChild, render } from "preact";
import { HttpLink } from "./api/http";
import { LinkedSource } from "./api/linked";
import { findSnapshot, SnapshotSource } from "./api/snapshot";
import { App } from "./app";
import { startTheme } from "./theme";
import { WidgetApp } from "./widget/app";
import { connected, isWidget } from "./widget/connect";
import "./style/theme.css";

startTheme();
const place = document.getElementById("app");
const draw = (page: ComponentChild) => place && render(page, place);
const snapshot = findSnapshot();
if (snapshot) draw(<App source={new SnapshotSource(snapshot)} reported={snapshot.run.id} />);
else if (isWidget()) connected().then((kernel) => draw(<WidgetApp kernel={kernel} />));
else draw(<App source={new LinkedSource(new HttpLink())} reported={null} />);
