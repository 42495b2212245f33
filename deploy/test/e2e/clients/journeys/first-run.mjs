// A newcomer opens the address of a stack without users, then the link that the start has
// printed, LINK; an earlier start printed OLDER.
export default async (j) => {
  const { OLDER: older, LINK: link, USERNAME: username, PASSWORD: password } = j.env;
  const device = await j.open({ name: "newcomer", lang: "en" });
  await device.visit("/");
  device.at("/pforte/login?return=%2Fpforte%2F");
  await device.shows("There is no account yet.");
  await device.visit(older, 400);
  await device.visit(link);
  await device.send("/pforte/setup", { household: "Haus am See", display_name: "Anna Müller", username, password });
  device.at("/pforte/");
  await device.shows("Haus am See");
  await device.visit(link);
  device.at("/pforte/"); // it has just been used here

  const another = await j.open({ name: "another", lang: "en" });
  await another.visit(link, 400);
  await another.shows("The household is set up already.");
  await another.visit("/");
  await another.send("/pforte/login", { username, password });
  another.at("/pforte/");
  await another.shows("Anna Müller");
};
