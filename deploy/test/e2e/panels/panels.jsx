// Draws panels of the dashboard with Grafana's own components: BigValue and TimeSeries are
// what its panels "stat" and "timeseries" consist of. window.row has the panels of one row
// as the dashboard has them, each target with what Prometheus answered to query_range.
import { applyFieldOverrides, createTheme, FieldType, getFieldDisplayValues, renderTextPanelMarkdown, ThemeContext, toDataFrame } from "@grafana/data";
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, GlobalStyles, PanelChrome, TimeSeries } from "@grafana/ui";
import { createRoot } from "react-dom/client";
import "uplot/dist/uPlot.min.css";

// Grafana's grid: 24 columns, and rows of this height with this space between them.
const COLUMNS = 24, ROW = 30, SPACE = 8;
const theme = createTheme({ colors: { mode: "light" } });
const same = (text) => text;

// settings are those of a panel's fields, with the colours that Grafana takes where a
// dashboard names none. The lowest threshold has no value in a dashboard's JSON.
const settings = ({ type, fieldConfig: { defaults } }) => ({
  color: { mode: type === "stat" ? "thresholds" : "palette-classic" },
  ...defaults,
  thresholds: defaults.thresholds && { ...defaults.thresholds, steps: defaults.thresholds.steps.map((step) => ({ ...step, value: step.value ?? -Infinity })) },
});

// frames are the series of a panel, named by their target's legend.
const frames = (panel) => {
  const data = panel.targets.flatMap((target) => target.result.map(({ metric, values }) => {
    const name = target.legendFormat.replace(/{{(\w+)}}/g, (_, label) => metric[label] ?? "");
    return toDataFrame({ refId: target.refId, fields: [
      { name: "Time", type: FieldType.time, values: values.map(([seconds]) => seconds * 1000) },
      { name: "Value", type: FieldType.number, config: { ...settings(panel), displayNameFromDS: name }, values: values.map(([, value]) => Number(value)) },
    ] });
  }));
  return applyFieldOverrides({ data, fieldConfig: { defaults: {}, overrides: [] }, replaceVariables: same, theme, timeZone: "utc" });
};

const Stat = ({ panel, width, height }) => {
  const shown = getFieldDisplayValues({
    data: frames(panel), fieldConfig: { defaults: settings(panel), overrides: [] }, reduceOptions: panel.options.reduceOptions, replaceVariables: same, theme, timeZone: "utc", sparkline: true,
  });
  return shown.map(({ display, sparkline }, i) => (
    <BigValue key={i} width={width} height={height / shown.length} theme={theme} value={display} sparkline={sparkline} justifyMode={BigValueJustifyMode.Auto}
      colorMode={BigValueColorMode[panel.options.colorMode === "value" ? "Value" : "None"]} graphMode={BigValueGraphMode[panel.options.graphMode === "area" ? "Area" : "None"]}
      textMode={BigValueTextMode.Auto} count={shown.length} />
  ));
};

const Series = ({ panel, width, height }) => {
  const time = (seconds) => ({ valueOf: () => seconds * 1000 });
  return <TimeSeries frames={frames(panel)} width={width} height={height} theme={theme} timeZone="utc" legend={{ calcs: [], ...panel.options.legend }}
    timeRange={{ from: time(window.row.from), to: time(window.row.to) }} options={panel.options} />;
};

const Text = ({ panel }) => <div className="markdown-html" dangerouslySetInnerHTML={{ __html: renderTextPanelMarkdown(panel.options.content) }} />;

const kinds = { stat: Stat, timeseries: Series, text: Text };

const Panel = ({ panel, unit, top }) => {
  const Kind = kinds[panel.type];
  const { x, y, w, h } = panel.gridPos;
  const width = w * unit - SPACE, height = h * (ROW + SPACE) - SPACE;
  return (
    <div style={{ position: "absolute", left: x * unit, top: (y - top) * (ROW + SPACE), width, height }}>
      <PanelChrome title={panel.title} width={width} height={height} padding={panel.type === "text" ? "md" : undefined}>
        {(width, height) => <Kind panel={panel} width={width} height={height} />}
      </PanelChrome>
    </div>
  );
};

const { panels } = window.row;
createRoot(document.getElementById("row")).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div style={{ position: "absolute", left: SPACE, top: SPACE }}>
      {panels.map((panel) => <Panel key={panel.id} panel={panel} unit={(window.innerWidth - SPACE) / COLUMNS} top={Math.min(...panels.map(({ gridPos }) => gridPos.y))} />)}
    </div>
  </ThemeContext.Provider>,
);
